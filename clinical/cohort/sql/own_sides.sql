-- The sides that the source gives its patients; those without one are a side that nobody trains on.
-- In:  patients.  Out: splits.
CREATE TABLE splits AS SELECT patient_id, coalesce(split, 'none') AS split FROM patients;
