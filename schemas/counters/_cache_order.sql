-- Which state of the caches goes first, of counters that were read in several: that of a program (NULL), then those of replays that are nearest to it.
CREATE OR REPLACE MACRO _cache_order(cache) AS
    coalesce(list_position(['in context', 'mixed', 'warm', 'cold'], cache), 0);
