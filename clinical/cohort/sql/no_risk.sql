-- Why a FHIR encounter has no risk, by the rules of a cohort, or a remark if it is no admission.
-- In:  the view Encounter of schemas/fhir.toml for its name in braces; the places of death.
-- Out: (reason, remark), each "" if there is none.
SELECT coalesce(CASE
        WHEN status IN ('cancelled', 'entered-in-error') THEN concat('the encounter is ', status)
        WHEN list_contains($died, upper(discharge_location)) THEN 'the patient died'
        WHEN upper(admission_type) = 'NEWBORN' THEN 'the patient is a newborn'
    END, '') AS reason,
    CASE WHEN NOT list_contains(string_split('{admission}', ' '), upper(class))
         THEN concat('of an encounter of class ', class, ', no admission') ELSE '' END AS remark
FROM ({encounter});
