SELECT * EXCLUDE (name_id) FROM variants($signature_id);
