FROM collective_waits('selection');
