-- Where are PSNs missing, and how many requests came again? Judged by window functions alone,
-- from nothing but opcodes, PSNs and READ lengths: a second opinion on RC-PSN-GAP and `arrival`.
WITH mtu AS (
    -- First and Middle packets carry one path MTU.
    SELECT file, connection_id, max(payload_len) AS mtu
    FROM packets
    WHERE opcode_name LIKE '%\_FIRST' ESCAPE '\' OR opcode_name LIKE '%\_MIDDLE' ESCAPE '\'
    GROUP BY ALL
),
requests AS (
    -- A READ takes as many PSNs as it has responses.
    SELECT p.file, p.flow_id, p.packet, p.psn,
           CASE WHEN p.operation = 'READ'
                THEN greatest(1, ceil(p.dma_len / coalesce(m.mtu, 4096)))::BIGINT
                ELSE 1 END AS span
    FROM packets p
    LEFT JOIN mtu m ON m.file = p.file AND m.connection_id = p.connection_id
    WHERE p.service IN ('RC', 'UC', 'XRC')
      AND p.operation NOT IN ('READ_RESPONSE', 'ACKNOWLEDGE', 'ATOMIC_ACKNOWLEDGE', 'RESYNC', 'other')
      -- What damaged packets say does not count.
      AND (p.icrc_status <> 'invalid' OR p.icrc_diagnosis IS NOT NULL)
),
steps AS (
    -- PSNs have 24 bits: a step is the shorter way around.
    SELECT *, ((psn::BIGINT - lag(psn) OVER flow + 8388608) & 16777215) - 8388608 AS step
    FROM requests
    WINDOW flow AS (PARTITION BY file, flow_id ORDER BY packet)
),
unwrapped AS (
    -- What jumps far is a new connection on an old queue pair.
    SELECT *, sum(coalesce(step, 0)) OVER flow AS position,
           count(*) FILTER (abs(step) > 16384) OVER flow AS connection
    FROM steps
    WINDOW flow AS (PARTITION BY file, flow_id ORDER BY packet)
),
judged AS (
    SELECT *, max(position + span) OVER (
        PARTITION BY file, flow_id, connection ORDER BY packet
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS expected
    FROM unwrapped
)
SELECT file, flow_id, count(*) AS requests,
       count(*) FILTER (position > expected) AS gaps,
       coalesce(sum(position - expected) FILTER (position > expected), 0)::BIGINT AS missing,
       count(*) FILTER (position < expected) AS again,
       min(packet) FILTER (position > expected) AS first_gap
FROM judged
GROUP BY ALL
ORDER BY gaps DESC, again DESC, file, flow_id;
