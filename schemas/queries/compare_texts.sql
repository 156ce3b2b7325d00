-- Of the parts of names in $texts, those that no selected kernel has.
SELECT text
FROM (SELECT unnest($texts::VARCHAR[]) AS text)
WHERE NOT EXISTS (FROM selection WHERE contains(selection.name, text));
