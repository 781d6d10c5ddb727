-- How a piece of text becomes an id, a time or a yes. Everything arrives as text.
-- Notes come by the million: what is dear (regular expressions) runs only where it can matter.

CREATE MACRO clean(x) AS nullif(trim(x), '');

CREATE MACRO upper_clean(x) AS upper(clean(x));

-- Ids compare as text. A whole number that passed through a float column comes back as 145834.0.
CREATE MACRO is_decimal(x) AS
    CASE WHEN contains(x, '.') THEN regexp_full_match(trim(x), '-?[0-9]+\.0+') ELSE false END;
CREATE MACRO identifier(x) AS
    CASE WHEN is_decimal(x) THEN regexp_replace(trim(x), '\.0+$', '') ELSE clean(x) END;

-- ISO 8601 only: a cast alone would take 01/02/19 for a day of the year 1, and 10:00 PM for the
-- morning. A time with an offset is taken to UTC, one without stands as it is.
CREATE MACRO iso_moment(x) AS CASE
    WHEN x >= '0' AND (x LIKE '____-__-__' OR x LIKE '____-__-__ __:__:__')
      OR regexp_full_match(x, '\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?')
    THEN try_cast(x AS TIMESTAMP)
    WHEN regexp_full_match(x,
        '\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?( ?UTC| ?Z|[+-]\d\d(:?\d\d)?)')
    THEN timezone('UTC', try_cast(replace(replace(x, 'UTC', 'Z'), ' Z', 'Z') AS TIMESTAMPTZ))
END;
CREATE MACRO moment(x) AS iso_moment(trim(x));
CREATE MACRO is_unreadable(x) AS clean(x) IS NOT NULL AND moment(x) IS NULL;
CREATE MACRO is_date_only(x) AS length(trim(x)) <= 10;

CREATE MACRO is_true(x) AS
    coalesce(list_contains(['1', '1.0', 'true', 't', 'yes', 'y'], lower(clean(x))), false);
CREATE MACRO is_neither(x) AS clean(x) IS NOT NULL AND NOT is_true(x)
    AND NOT list_contains(['0', '0.0', 'false', 'f', 'no', 'n'], lower(clean(x)));

-- NaN is what a gap in a column of floats becomes, and no number.
CREATE MACRO number(x) AS
    CASE WHEN isfinite(try_cast(clean(x) AS DOUBLE)) THEN try_cast(clean(x) AS DOUBLE) END;
CREATE MACRO is_no_number(x) AS clean(x) IS NOT NULL AND number(x) IS NULL;
