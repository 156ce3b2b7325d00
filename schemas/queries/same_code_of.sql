SELECT * EXCLUDE (name_id) FROM same_code($signature_id);
