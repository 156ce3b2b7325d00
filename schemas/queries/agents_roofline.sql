-- Work, rates and bound of each kernel of the selected launches.
FROM roofline('selection');
