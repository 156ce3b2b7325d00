FROM overlap('selection');
