-- Which responders had no receive posted in time, and for which messages?
SELECT p.file, p.src AS responder, p.dst AS requester, count(*) AS rnr_naks,
       count(DISTINCT p.psn) AS psns, min(p.packet) AS first_packet,
       (SELECT count(*) FROM messages m
        WHERE m.file = p.file AND m.connection_id = p.connection_id AND m.rnr_naks > 0) AS messages
FROM packets p
WHERE p.ack = 'RNR'
GROUP BY p.file, p.src, p.dst, p.connection_id
ORDER BY rnr_naks DESC, p.file, responder;
