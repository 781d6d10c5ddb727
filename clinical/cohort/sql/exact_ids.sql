-- Ids that are compared as they are written: upper and lower case differ, and "1.0" is not "1".
CREATE OR REPLACE MACRO is_decimal(x) AS false;
CREATE OR REPLACE MACRO is_rounded(x) AS false;
CREATE OR REPLACE MACRO id_text(x) AS strip(x);
CREATE OR REPLACE MACRO id_key(x) AS strip(x);
