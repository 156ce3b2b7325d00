FROM precision_conversions('selection');
