FROM roofline('selection');
