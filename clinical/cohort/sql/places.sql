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
codes AS (       -- of UB-04, the US claim form: a column that holds nothing else
    SELECT coalesce(sum(rows) FILTER (regexp_full_match(place, '0?[1-9]|[2-9]\d')) >= 0.95 * sum(rows), false)
        AND bool_or(place IN ('1', '01')) AS are_ub04
    FROM names
),
meanings AS (
    SELECT place, rows, not_marked,
        place = '30' AND are_ub04 OR regexp_matches(place, concat(
            '\bSTILL (A |AN )?(PATIENT|IN ?-?PATIENT|ADMITTED|HOSPITALI[SZ]ED|IN )|^(IN ?-?PATIENT|PATIENT),? STILL\b|',
            '\bNOT (YET )?DISCHARGED|\b(CURRENTLY|REMAINS?) (ADMITTED|(AN? )?IN ?-?PATIENT|IN )|\bSTILL INPATIENT|',
            'NOCH (STATION|IM KRANKENHAUS|IN BEHANDLUNG|NICHT ENTLASSEN)|TOUJOURS HOSPITALIS')) AS is_still,
        list_contains(rules.died_locations, place) AS died,
        list_contains(rules.alive_locations, place) AS listed_alive,
        list_has_any(words, rules.alive_locations) AS has_alive_word,
        -- Codes 20 and 40 to 42 of the US claim form (UB-04) are deaths.
        list_has_any(words, death_words()) OR contains(place, 'PASSED AWAY')
            OR place IN ('20', '40', '41', '42') AS has_death_word
    FROM words, rules, codes
)
SELECT place, rows, not_marked, died,
    NOT died AND NOT listed_alive AND is_still AS still,
    NOT died AND NOT still AND (listed_alive OR has_alive_word AND NOT has_death_word) AS alive,
    NOT died AND NOT listed_alive AND has_death_word AS looks_dead
FROM meanings;
