-- Of several Binary resources with one id, the first is read.
DELETE FROM fhir_Binary WHERE rowid NOT IN (SELECT min(rowid) FROM fhir_Binary GROUP BY id);
