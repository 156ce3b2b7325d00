FROM module_tree('selection');
