FROM collective_stragglers('selection');
