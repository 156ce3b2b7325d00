FROM iterations('selection');
