FROM collectives('selection');
