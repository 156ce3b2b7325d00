-- Probability that a standard normal value is as far from 0 as `z` or farther; NULL where it is not known. erfc: Chebyshev fit, relative error under
-- 1.2e-7 (Press et al., Numerical Recipes, 6.2).
CREATE OR REPLACE MACRO _two_sided_p(z) AS (
    SELECT
        t * exp(
            -z * z / 2 - 1.26551223 + t * (
                1.00002368 + t * (
                    0.37409196 + t * (
                        0.09678418 + t * (
                            -0.18628806 + t * (
                                0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277)))
                            )
                        )
                    )
                )
            )
        )
    FROM (SELECT 1 / (1 + z / sqrt(2) / 2) AS t)
);
