-- What part of each flow's request packets had been sent before, and what did it cost?
SELECT p.file, p.src, p.dst, p.dest_qp, count(*) AS requests,
       count(*) FILTER (p.arrival = 'again') AS again,
       round(100 * again / requests, 3) AS percent,
       sum(p.payload_len) FILTER (p.arrival = 'again') AS bytes_again
FROM packets p
WHERE p.part = 'request'
GROUP BY ALL
HAVING again > 0
ORDER BY again DESC, p.file, p.dest_qp;
