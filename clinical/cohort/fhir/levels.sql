-- Encounters of the classes of admissions that lie inside of a longer one of another class, as stays on a
-- ward inside of the stay in hospital: how many of how many, and the classes of the longer ones.
-- In:  fhir_Encounter; the classes of admissions, in upper case.
WITH timed AS (
    SELECT id, patient_id, part_of, class, moment(admit_time) AS began, moment(discharge_time) AS ended,
        list_contains($classes::VARCHAR[], upper(class)) AS is_admission
    FROM fhir_Encounter
),
inside AS (
    SELECT longer.class
    FROM timed JOIN timed longer ON timed.part_of = longer.id AND timed.patient_id = longer.patient_id
    WHERE timed.is_admission AND NOT longer.is_admission
        AND longer.began <= timed.began AND longer.ended > timed.ended
),
counts AS (SELECT class, count(*) AS n FROM inside GROUP BY class)
SELECT coalesce(sum(n), 0)::BIGINT, (SELECT count(*) FROM timed WHERE is_admission), counts_text(class, n)
FROM counts
