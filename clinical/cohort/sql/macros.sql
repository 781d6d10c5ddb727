-- How text becomes an id, a time or a yes. Everything arrives as text.
-- There are millions of notes: slow steps (regular expressions) run only where they can matter.

CREATE MACRO clean(x) AS nullif(trim(x), '');

-- A cell of the source. Programs write words such as NULL into empty cells, and a column of whole
-- numbers with an empty cell becomes one of floats: 9201.0, in Spark 4.4814637E7. Numbers from 2^53
-- on, and those rounded to 4.48146E+07, stay as they are: their digits are lost. The sequences count
-- what is changed.
CREATE SEQUENCE uncounted;
CREATE MACRO is_number_like(x) AS x BETWEEN '0' AND '9~';
CREATE MACRO present(x, words, missing) AS CASE
    -- MySQL writes an empty date as zeros. Few sources have other words that begin with a digit.
    WHEN (NOT is_number_like(x) AND regexp_full_match(x, words))
      OR starts_with(x, '0000-00-00')
      OR regexp_matches(words, '[(|]\d') AND regexp_full_match(x, words)
    THEN if(nextval(missing) IS NULL, x, NULL)
    ELSE x END;
CREATE MACRO counted(x, counter) AS if(nextval(counter) IS NULL, NULL, x);
-- Spreadsheets keep the zeros of "00123" as a formula: ="00123".
CREATE MACRO cell(x, words, missing, decimals) AS CASE
    WHEN x >= '="' AND x < '=#' AND suffix(x, '"') THEN nullif(trim(x[3:-2]), '')
    WHEN NOT is_number_like(x) OR NOT contains(x, '.') OR regexp_matches(words, '[(|]\d')
        AND regexp_full_match(x, words) THEN present(x, words, missing)
    WHEN regexp_full_match(x, '(\d{1,15}|[0-8]\d{15})\.0+')
    THEN counted(split_part(x, '.', 1), decimals)
    WHEN regexp_full_match(x, '\d\.\d+[eE]\d\d?')
     AND try_cast(x AS DOUBLE) = try_cast(try_cast(x AS DOUBLE) AS BIGINT) AND try_cast(x AS DOUBLE) < 9e15
    THEN counted(try_cast(try_cast(x AS DOUBLE) AS BIGINT)::VARCHAR, decimals)
    ELSE x END;

-- Spreadsheets run a cell that begins with one of these as a formula.
CREATE MACRO no_formula(x) AS CASE
    WHEN regexp_matches(x, '^''*[\x{FEFF}\x00]*[=+@\-\t\r\n\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}]') AND try_cast(x AS DOUBLE) IS NULL THEN concat('''', x)
    ELSE x END;

-- The first ten texts of a list, and values with their counts, such as "AMB (12), EMER (3)"; "" for none.
CREATE MACRO first_ten(texts) AS coalesce(
    array_to_string(texts[:10] || if(len(texts) > 10, ['and more'], []), ', '), '');
CREATE MACRO counts_text(value, n) AS first_ten(list(format('{} ({:,})', value, n) ORDER BY n DESC, value));

CREATE MACRO upper_clean(x) AS upper(clean(x));

-- Ids as they are shown, and as they are compared: "P1 " is "p1", and "12" is "12.0". The rules are those of domainbert/tables/ids.py, which
-- python_id_key calls; SQL alone is enough where every character is ASCII.
-- Trimming such characters is slow, and few ids have them.
CREATE MACRO strip(x) AS CASE WHEN x >= '!' AND right(x, 1) >= '!' THEN x
    ELSE nullif(trim(x, E' \t\n\x0B\f\r'), '') END;
CREATE MACRO is_decimal(x) AS
    CASE WHEN contains(x, '.') THEN regexp_full_match(strip(x), '[-+]?[0-9]+\.0+') ELSE false END;
CREATE MACRO id_text(x) AS
    CASE WHEN is_decimal(x) THEN regexp_replace(strip(x), '\.0+$', '') ELSE strip(x) END;
-- What `cell` left as a float has lost digits: two patients may have come to one id.
CREATE MACRO is_rounded(x) AS CASE WHEN contains(x, '.') OR contains(x, '+')
    THEN regexp_full_match(strip(x), '\d{16,}\.0+|\d(\.\d+)?[eE]\+?\d+') ELSE false END;
CREATE MACRO id_key(x) AS CASE
    WHEN is_rounded(x) THEN NULL
    WHEN strlen(x) = length(x) THEN lower(id_text(x))
    ELSE python_id_key(x) END;

-- ISO 8601 only: a plain cast would read 01/02/19 as a day of the year 1, and 10:00 PM as the
-- morning. A time with an offset is converted to UTC; one without an offset is kept as it is.
CREATE MACRO iso_moment(x) AS CASE
    WHEN x >= '0' AND (x LIKE '____-__-__' OR x LIKE '____-__-__ __:__:__')
      OR regexp_full_match(x, '\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?')
    THEN try_cast(x AS TIMESTAMP)
    WHEN regexp_full_match(x,
        '\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?( ?UTC| ?Z|[+-]\d\d(:?\d\d)?)')
    THEN timezone('UTC', try_cast(replace(replace(x, 'UTC', 'Z'), ' Z', 'Z') AS TIMESTAMPTZ))
END;
CREATE MACRO moment(x) AS iso_moment(trim(x));

-- The time on the clock of the place where it was written. Days are compared on that clock: in UTC an
-- evening in America is the next day.
CREATE MACRO wall_time(x) AS CASE
    WHEN x LIKE '____-__-__ __:__:__' OR NOT contains(x, ':') THEN moment(x)
    ELSE iso_moment(regexp_replace(trim(x), '( ?UTC| ?Z|[+-]\d\d(:?\d\d)?)$', ''))
END;
-- A time as it was written. The macros below take it, because binding a macro that reads text costs a
-- millisecond: each time is read once.
CREATE MACRO clock(x) AS {'text': clean(x), 'instant': moment(x), 'wall': wall_time(x)};
CREATE MACRO is_unreadable(t) AS t.text IS NOT NULL AND t.instant IS NULL;
CREATE MACRO day_of(t) AS t.wall::DATE;
-- Tables of timestamps write a date without a time as midnight.
CREATE MACRO has_time(t) AS t.wall <> date_trunc('day', t.wall);
-- The instant, only where a time of day is known.
CREATE MACRO timed_moment(t) AS CASE WHEN has_time(t) THEN t.instant END;
CREATE MACRO is_date_only(t) AS length(t.text) <= 10;
-- How far the clock is ahead of UTC; unknown for a date.
CREATE MACRO offset_of(t) AS CASE WHEN NOT is_date_only(t) THEN t.wall - t.instant END;

-- How a whole column is written, see clinical/cohort/conventions.py. A date that a program writes as a time
-- is midnight, or the last minute or second of the day.
-- The usual form, and times that are plainly not midnight, are told without a slow look.
CREATE MACRO has_offset(x) AS CASE WHEN x LIKE '____-__-__ __:__:__' THEN false
    ELSE regexp_matches(x, ':.*(UTC|Z|[+-]\d\d(:?\d\d)?)\s*$') END;
CREATE MACRO is_time_of_date(t) AS
    date_trunc('second', t)::TIME IN (TIME '00:00:00', TIME '23:59:00', TIME '23:59:59');
CREATE MACRO is_midnight(x) AS CASE WHEN contains(x, '00:00') OR contains(x, '23:59')
    THEN coalesce(is_time_of_date(wall_time(x)), false) ELSE false END;
CREATE MACRO full_hour(x) AS CASE
    WHEN contains(x, ':') AND strftime(wall_time(x), '%M:%S') = '00:00' THEN hour(wall_time(x)) END;
-- Of a column that holds dates, where 12:00:00 can be one too.
CREATE MACRO date_of_midnight(x) AS CASE WHEN is_midnight(x) OR coalesce(full_hour(x) = 12, false) THEN strftime(wall_time(x), '%Y-%m-%d') ELSE x END;
-- A time on the clock of a zone, with its offset. Of times that are skipped or come twice when clocks
-- change, the zone's own rule counts.
CREATE MACRO zoned_text(instant, wall) AS concat(strftime(wall, '%Y-%m-%d %H:%M:%S.%f'),
    if(wall < instant, '-', '+'),
    strftime(TIMESTAMP '2000-01-01' + greatest(wall - instant, instant - wall), '%H:%M'));
CREATE MACRO instant_in_zone(x, zone) AS
    CASE WHEN has_offset(x) THEN moment(x) ELSE timezone('UTC', timezone(zone, moment(x))) END;
CREATE MACRO in_zone(x, zone) AS coalesce(zoned_text(
    instant_in_zone(x, zone),
    timezone(zone, timezone('UTC', instant_in_zone(x, zone)))), x);

-- A date without a time begins a stay at its first moment and ends one at its last: FHIR says so, and
-- no stay ends before it began. Its day is that of the clock of the other end of the stay.
-- Years such as 9999 and 0001 stand for an unknown time, also of a stay that has not ended.
CREATE MACRO known_instant(t) AS CASE WHEN year(t.instant) BETWEEN 1800 AND 2300 THEN t.instant END;
CREATE MACRO start_moment(t, other) AS known_instant(t)
    - CASE WHEN is_date_only(t) THEN coalesce(offset_of(other), INTERVAL 0 HOUR) ELSE INTERVAL 0 HOUR END;
CREATE MACRO end_moment(t, other) AS
    start_moment(t, other) + CASE WHEN is_date_only(t) THEN INTERVAL 86399 SECOND ELSE INTERVAL 0 HOUR END;
-- For tables that have dates as timestamps: midnight before an admission of that day is a date.
CREATE MACRO date_if_before(x, other) AS
    CASE WHEN wall_time(x) = date_trunc('day', wall_time(other)) AND moment(x) < moment(other)
         THEN left(trim(x), 10) ELSE x END;

-- ISO 8601 in its basic form, which HL7 v2 writes (20210104142200-0500), and an offset after a space, as SQL
-- Server writes it, in the form that the macros above read.
CREATE MACRO extended_iso(x) AS CASE
    WHEN x[5] BETWEEN '0' AND '9' AND regexp_full_match(x,
        '(19|2[01])\d\d[01]\d[0-3]\d([T ]?[0-2]\d[0-5]\d([0-5]\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?')
    THEN concat(x[1:4], '-', x[5:6], '-', x[7:8],
        regexp_replace(regexp_replace(x[9:], '^[T ]?(\d\d)(\d\d)', ' \1:\2'), '^( ..:..)(\d\d)', '\1:\2'))
    WHEN x[-7] = ' ' AND regexp_full_match(x[-6:], '[+-]\d\d:\d\d') THEN concat(x[:-8], x[-6:])
    ELSE x END;

-- Text in a format of a mapping as ISO 8601, as a date if the format has no clock; NULL where it does
-- not fit. "%Y" reads 23 as the year 23, which nobody means. The offset that "%z" reads is kept.
CREATE MACRO offset_text(x) AS regexp_extract(trim(x), '(UTC|GMT|Z|[+-]\d\d(:?\d\d)?)$', 1);
CREATE MACRO iso_offset(x) AS regexp_replace(
    replace(replace(replace(x, 'UTC', 'Z'), 'GMT', 'Z'), 'Z', '+00:00'), '^([+-]\d\d):?(\d\d)?$', '\1:\200');
CREATE MACRO offset_span(x) AS if(starts_with(x, '-'), -1, 1)
    * (try_cast(x[2:3] AS INTEGER) * 60 + try_cast(x[5:6] AS INTEGER)) * INTERVAL 1 MINUTE;
CREATE MACRO iso_text(x, format) AS CASE
    WHEN year(try_strptime(trim(x), format)) BETWEEN 2 AND 999 THEN NULL
    WHEN contains(format, '%z') AND offset_text(x) <> '' AND try_strptime(trim(x), format) IS NOT NULL
    THEN strftime(timezone('UTC', try_strptime(trim(x), format)::TIMESTAMPTZ)
            + offset_span(iso_offset(offset_text(x))), '%Y-%m-%d %H:%M:%S.%f')
        || left(iso_offset(offset_text(x)), 6)
    ELSE strftime(try_strptime(trim(x), format),
        CASE WHEN regexp_matches(format, '%-?[HIcX]') THEN '%Y-%m-%d %H:%M:%S.%f' ELSE '%Y-%m-%d' END)
END;

-- Why the `where` of the schema excludes a value: "visit_concept_id 9202"; NULL for values it names.
CREATE MACRO unlike(name, x, known) AS CASE
    WHEN NOT list_contains(known, upper(coalesce(trim(x), 'missing')))
    THEN concat(name, ' ', coalesce(trim(x), 'missing')) END;

CREATE MACRO is_true(x) AS
    coalesce(list_contains(['1', '1.0', 'true', 't', 'yes', 'y'], lower(clean(x))), false);

-- Words for a death, and whether a column that tells of deaths says so, or says neither.
CREATE MACRO death_words() AS [
    'EXPIRED', 'DECEASED', 'DIED', 'DEAD', 'DEATH', 'DEMISE', 'MORGUE', 'MORTUARY', 'CORONER',
    'FUNERAL', 'EXITUS', 'VERSTORBEN', 'GESTORBEN', 'TOD', 'OVERLEDEN', 'OVERLIJDEN', 'FALLECIDO',
    'FALLECIDA', 'FALLECIMIENTO', 'DEFUNCIÓN', 'DEFUNCION', 'MUERTE', 'DÉCÉDÉ', 'DECEDE', 'DÉCÉDÉE',
    'DECEDEE', 'DÉCÈS', 'DECES', 'MORT', 'DECEDUTO', 'DECEDUTA', 'DECESSO', 'MORTO', 'MORTE', 'ÓBITO',
    'OBITO', 'FALECIDO', 'FALECIDA', 'FALECIMENTO', 'AVLIDEN', 'DÖD', 'DØD', 'DØDD', 'KUOLLUT', 'ZGON',
    'ZMARŁ', 'ZMARŁA', 'ZEMŘEL', 'ZEMŘELA', 'ÚMRTÍ', 'ELHUNYT', 'ÖLÜM', 'УМЕР', 'УМЕРЛА', 'СМЕРТЬ', '死亡'
];
CREATE MACRO says_died(x) AS
    is_true(x) OR coalesce(list_contains(death_words(), upper_clean(x)), false);
CREATE MACRO is_neither(x) AS clean(x) IS NOT NULL AND NOT says_died(x)
    AND NOT list_contains(['0', '0.0', 'false', 'f', 'no', 'n', 'alive', 'survived'], lower(clean(x)));

-- A gap in a column of floats comes back as NaN, which is not a number here.
CREATE MACRO number(x) AS
    CASE WHEN isfinite(try_cast(clean(x) AS DOUBLE)) THEN try_cast(clean(x) AS DOUBLE) END;
CREATE MACRO is_no_number(x) AS clean(x) IS NOT NULL AND number(x) IS NULL;
