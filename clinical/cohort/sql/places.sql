-- What each place of discharge means: the patient died, is known to be somewhere else, or is still there.
-- In:  raw_admissions, rules.
-- Out: places; looks_dead: nothing says what it is, and it may be a death.

CREATE TABLE places AS
WITH names AS (
    SELECT upper_clean(discharge_location) AS place, count(*) AS rows,
        count_if(NOT says_died(died)) AS not_marked
    FROM raw_admissions
    WHERE other IS NULL AND upper_clean(discharge_location) IS NOT NULL
    GROUP BY ALL
),
words AS (   -- a code is no word: 20 is not "20 miles from home"
    SELECT *, regexp_extract_all(place, '\pL[\pL\pN]*') AS words FROM names
),
coded AS (       -- codes of UB-04, the US claim form
    SELECT *, regexp_full_match(place, '0?[1-79]|2[01]|30|4[0-3]|5[01]|6[1-69]|70|8[1-9]|9[0-5]') AS is_code FROM words
),
codes AS (       -- a column that holds nothing else; other systems have some of the codes with other meanings
    SELECT coalesce(sum(rows) FILTER (is_code) >= 0.95 * sum(rows), false) AND bool_or(place IN ('1', '01')) AS are_ub04,
        are_ub04 AND bool_or(place IN ('50', '51', '61', '62', '63', '65', '66')) AS are_surely_ub04
    FROM coded
),
meanings AS (
    SELECT place, rows, not_marked,
        place = '30' AND are_ub04 OR regexp_matches(place, concat(
            '\bSTILL (A |AN )?(PATIENT|IN ?-?PATIENT|ADMITTED|HOSPITALI[SZ]ED|IN )|^(IN ?-?PATIENT|PATIENT),? STILL\b|',
            '\bNOT (YET )?DISCHARGED|\b(CURRENTLY|REMAINS?) (ADMITTED|(AN? )?IN ?-?PATIENT|IN )|\bSTILL INPATIENT|',
            'NOCH (STATION|IM KRANKENHAUS|IN BEHANDLUNG|NICHT ENTLASSEN)|TOUJOURS HOSPITALIS')) AS is_still,
        list_contains(rules.alive_locations, place) AS listed_alive,
        place IN ('20', '40', '41', '42') AS is_death_code,
        are_surely_ub04 AND is_code AS is_read_as_code,
        list_contains(rules.died_locations, place) OR is_read_as_code AND is_death_code AND NOT listed_alive AS died,
        is_read_as_code OR list_has_any(words, rules.alive_locations) AS has_alive_word,
        list_has_any(words, death_words()) OR contains(place, 'PASSED AWAY') OR is_death_code AS has_death_word
    FROM coded, rules, codes
)
SELECT place, rows, not_marked, died, is_read_as_code,
    NOT died AND NOT listed_alive AND is_still AS still,
    NOT died AND NOT still AND (listed_alive OR has_alive_word AND NOT has_death_word) AS alive,
    NOT died AND NOT listed_alive AND has_death_word AS looks_dead
FROM meanings;
