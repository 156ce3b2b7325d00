FROM fusion_candidates('selection');
