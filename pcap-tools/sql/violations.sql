-- Which flow breaks which rule, how often, and where to look first?
SELECT f.file, w.src, w.dst, w.dest_qp, f.rule, f.severity,
       count(*) AS fails, min(f.packet) AS first_packet, min_by(f.message, f.packet) AS first_message
FROM findings f
LEFT JOIN (SELECT DISTINCT file, flow_id, src, dst, dest_qp FROM flows) w
       ON w.file = f.file AND w.flow_id = f.flow_id
WHERE f.verdict = 'fail'
GROUP BY ALL
ORDER BY f.severity, fails DESC, f.file, f.rule, first_packet;
