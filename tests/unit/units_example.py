"""A right spec with units of many rows that uses every form, for tests that make one thing in it wrong."""

from __future__ import annotations

__all__ = ["FILES", "UNITS"]

UNITS = """\
dprelease: 1
release: {name: web-use, period: 2024-03}
privacy:
  unit: {entity: user}
  budget: {epsilon: 2, delta: 1e-9}
references:
  pages: {file: reference/pages.csv, columns: {page: text, topic: text}}
  never: {file: reference/never.csv, columns: {country: text, device: text, why: text}}
tables:
  users:
    account: web
    source: {file: data/users.csv}
    unit_id: user_id
    columns:
      tenure: {type: integer, range: [0, 40]}
      plan: {type: text, keys: [free, paid]}
  visits:
    account: web
    source: {file: data/visits.parquet}
    unit_id: user_id
    null_id: unit
    bounds: {max_rows: 100, truncate: first, order_by: [seen, seconds]}
    join:
      - {reference: pages, on: page, add: [topic]}
      - {table: users, on: user_id, max_matches: 1, add: [tenure]}
    columns:
      page: {type: text, keys: {reference: pages}}
      topic: {type: text}
      tenure: {type: integer, range: [0, 40]}
      country: {type: text, keys: [DE, FR, US]}
      nace: {type: integer}
      seen: {type: timestamp}
      term: {type: text}
      seconds: {type: integer, range: [0, 3600]}
      price: {type: decimal, range: [-100, 1e6], step: 0.01}
      since: {bin: tenure, edges: [0, 1, 2.5, 10], labels: {"[0,1)": New}}
      sector: {map: nace, to: {1: farming, 02: industry, 3: farming}, otherwise: services}
      grade: {map: country, type: integer, to: {DE: 1, FR: 2}, null: 2}
      adult: {sql: "tenure  >= 18 and not (country='US')", type: boolean, keys: [true, false], null: false}
      minutes: {sql: "seconds / 60", type: integer, range: [0, 60]}
      device: {type: text, keys: [phone, desk]}
  clicks:
    account: web
    source: {file: data/clicks.csv}
    unit_id: who
    columns:
      who: {type: integer}
      kind: {type: text, keys: [a, b, c]}
      amount: {type: decimal, range: [0, 100], step: 0.01}
queries:
  by_country:
    table: visits
    where: "seconds > 0 and  term is not null"
    by: [country, device]
    bounds: {max_groups: 3, max_rows_per_group: 10}
    except: {reference: never}
    suppress: {measure: users, below: 30}
    measures:
      visits: {count: rows}
      users: {count: units}
      pages: {count_distinct: page}
      long: {count: rows, where: "seconds >  60"}
      spent: {sum: seconds, clip: [0, 300], clip_per: unit_cell, where: "seconds > 1"}
      average: {mean: seconds, clip_per: row}
      middle: {quantiles: seconds, at: [0.125, 0.5, 0.75], clip: [0, 600]}
      least: {min: price}
      most: {max: minutes}
      rate: {ratio: [long, visits]}
    expect: {visits: 500}
  terms:
    table: visits
    by: [term, sector]
    keys: private
    min_units: 20
    bounds: {max_groups: 5}
    measures: {visits: {count: rows}}
  top_pages: {table: visits, top_k: page, k: 2}
  top_kinds: {table: clicks, top_k: kind, k: 3, of: rows, bounds: {max_rows_per_group: 4}, share: 2}
  clickers: {table: clicks, by: [kind], measures: {n: {count: units}, s: {sum: amount, clip_per: unit_cell}}}
  plans: {table: users, by: [plan], bounds: {max_rows_per_group: 1}, measures: {t: {mean: tenure}}}
derive:
  gap: {title: Gap, sql: "select country, average - middle_q50 as gap from by_country"}
"""
FILES: dict[str, bytes | None] = {
    "pages": b"page,topic\nhome,start\nnews,read\nsport,read\n",
    "never": b"country,device,why\nUS,phone,law\nDE,desk,law\nUS,phone,again\n",
}
