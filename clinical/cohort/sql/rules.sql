-- The definition and the request as one row, for all other steps.
-- In:  one value for each name; `columns` are those that the source has of ours.  Out: rules.

CREATE TABLE rules AS
SELECT
    round($transfer_gap_hours * 3600e6)::BIGINT AS gap_us,
    round($horizon_days * 86400e6)::BIGINT AS horizon_us,
    round($hours * 3600e6)::BIGINT AS hours_us,
    $data_end::TIMESTAMP AS data_end,
    $derive_data_end::BOOLEAN AS derive_data_end,
    $early::BOOLEAN AS early,
    $death_after_discharge = 'exclude' AS exclude_deaths,
    $outcome AS outcome,
    $outcome IN ('long_stay', 'hospital_death', 'diagnoses') AS of_stay,   -- not of what follows it
    $minimum_age::DOUBLE AS minimum_age,
    $maximum_age::DOUBLE AS maximum_age,
    $newborn_types::VARCHAR[] AS newborn_types,
    $observation_types::VARCHAR[] AS observation_types,
    $died_locations::VARCHAR[] AS died_locations,
    $alive_locations::VARCHAR[] AS alive_locations,
    $same_day_death AS same_day_death,
    round($death_tolerance_minutes * 60e6)::BIGINT AS death_tolerance_us,
    $planned_types::VARCHAR[] AS planned_types,
    $discharge_categories::VARCHAR[] AS discharge_categories,
    $addendum_kinds::VARCHAR[] AS addendum_kinds,
    $patients_table <> '' AS has_patients,
    $has_notes::BOOLEAN AS has_notes,
    $columns::VARCHAR[] AS columns,
    list_contains(columns, 'admission_type') AS has_types,
    list_contains(columns, 'death_date') AS deaths_known,
    false AS has_follow_up,
    $shifted_dates::BOOLEAN AS shifted_dates,
    shifted_dates AS shifted_births,
    $trusted_periods::BOOLEAN AS trusted_periods,
    $admissions_table AS admissions_table,   -- the source's names, "" for a table that it lacks
    $patients_table AS patients_table,
    $deaths_table AS deaths_table,
    $follow_up_table AS follow_up_table,
    $no_row AS no_row,                       -- the problems of a file that change what is counted
    $undecodable AS undecodable,
    $val_from::DOUBLE AS val_from,           -- shares of the stays before these periods
    $test_from::DOUBLE AS test_from;
