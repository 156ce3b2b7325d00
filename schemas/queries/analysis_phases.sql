FROM time_by('phase', 'selection');
