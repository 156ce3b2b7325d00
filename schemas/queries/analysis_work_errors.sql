FROM work_errors('selection');
