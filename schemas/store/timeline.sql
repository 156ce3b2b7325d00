-- name: bind
-- {rows} is a statement of this package. As a relation it would be planned two times before it is asked, which takes longer than the answer.
CREATE OR REPLACE TEMPORARY VIEW {name} AS {rows}
