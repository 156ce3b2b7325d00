FROM phases('selection');
