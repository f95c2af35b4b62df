-- How many ICRCs of each sender are right, wrong, or not to be checked?
SELECT file, src,
       count(*) FILTER (icrc_status = 'valid') AS valid,
       count(*) FILTER (icrc_status = 'invalid') AS invalid,
       count(*) FILTER (icrc_status NOT IN ('valid', 'invalid')) AS uncheckable,
       count(icrc_diagnosis) AS explained
FROM packets
WHERE icrc_status IS NOT NULL
GROUP BY ALL
ORDER BY invalid DESC, file, src;
