-- The version of a FHIR resource as text that sorts: the number at its end has 20 digits. "" is none.
CREATE MACRO version_key(x) AS if(x = '', NULL, concat(
    regexp_extract(x, '^(.*?)\d*$', 1), lpad(regexp_extract(x, '\d*$'), 20, '0')));
