-- Follow-up after discharge: what came first, a readmission (1), a death (2) or the end (0), and when.
-- Stays with a cut follow-up count until its end, and those left out for their death count too.
-- In:  stays, rules.  Out: followed; empty where the outcome is another or deaths are unknown.
CREATE TABLE followed AS
SELECT least(return_us, death_us, followed_us, horizon_us) / 86400e6 AS days,
    CASE WHEN return_us > 0 AND return_us < least(horizon_us, followed_us) THEN 1
         WHEN death_us < least(horizon_us, followed_us) THEN 2 ELSE 0 END AS event
FROM stays, rules
WHERE outcome = 'readmission' AND deaths_known AND coalesce(followed_us > 0, true)
  AND coalesce(exclusion, '') IN ('', 'censored', 'died_after_discharge', 'no_text');
