-- Which ranks waited for which in collectives, and what the late one did longer before: of the traces $traces, in all of their job.
WITH exchanges AS (
    FROM kernels
    WHERE category = 'COMMUNICATION' AND trace IN (SELECT unnest($traces::VARCHAR[]))
)

FROM collective_stragglers('exchanges');
