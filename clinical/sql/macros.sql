-- How a piece of text becomes an id, a time or a yes. Everything arrives as text.
-- Notes come by the million: what is dear (regular expressions) runs only where it can matter.

CREATE MACRO clean(x) AS nullif(trim(x), '');

CREATE MACRO upper_clean(x) AS upper(clean(x));

-- Ids compare as text. A whole number that passed through a float column comes back as 145834.0.
CREATE MACRO is_decimal(x) AS
    CASE WHEN contains(x, '.') THEN regexp_full_match(trim(x), '-?[0-9]+\.0+') ELSE false END;
CREATE MACRO identifier(x) AS
    CASE WHEN is_decimal(x) THEN regexp_replace(trim(x), '\.0+$', '') ELSE clean(x) END;

-- ISO 8601 only. A time with an offset is taken to UTC, one without stands as it is. The first
-- character keeps out the words that a cast would understand ('infinity', 'epoch').
CREATE MACRO has_offset(x) AS
    CASE WHEN length(x) < 17 OR (length(x) = 19 AND x[17] = ':') THEN false
         ELSE regexp_matches(x, '(Z| ?UTC|[0-9][+-][0-9]{2}(:?[0-9]{2})?)$') END;
CREATE MACRO moment(x) AS CASE
    WHEN left(trim(x), 1) NOT BETWEEN '0' AND '9' THEN NULL
    WHEN has_offset(trim(x)) THEN timezone('UTC', try_cast(trim(x) AS TIMESTAMPTZ))
    ELSE try_cast(trim(x) AS TIMESTAMP)
END;
CREATE MACRO is_unreadable(x) AS clean(x) IS NOT NULL AND moment(x) IS NULL;
CREATE MACRO is_date_only(x) AS length(trim(x)) <= 10;

CREATE MACRO is_true(x) AS
    coalesce(list_contains(['1', '1.0', 'true', 't', 'yes', 'y'], lower(clean(x))), false);
