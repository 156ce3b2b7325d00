FROM collective_replays('selection');
