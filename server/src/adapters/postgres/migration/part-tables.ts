import type {
  InstallationPart,
  InstallationTables,
  PartCursor,
  PartPage,
} from '../../../ports/installation.ts';
import type { Statement, Transaction } from '../database.ts';

/** Rows, and bytes of the column that may be large, after which a page ends. */
const PAGE_ROWS = 1000;
const PAGE_BYTES = 2 * 1024 * 1024;

/** Parts that are tables, without the log. */
export type TablePart = Exclude<InstallationPart, 'events' | 'profileCursor'>;

/**
 * `utf8`: a text that stands as bytes in the table, because it may hold U+0000. `flag`: 1 or 0 in a row, true
 * or false in the table.
 */
type ColumnType = 'int' | 'bigint' | 'float8' | 'text' | 'bytea' | 'utf8' | 'flag';

interface PartTable {
  /** The table, or a query in its place. */
  readonly from: string;
  /** Its column, by the name that the row has for it. */
  readonly columns: Readonly<Record<string, readonly [column: string, type: ColumnType]>>;
  /** The columns by which its rows are read in order, from the lowest value on. */
  readonly key: readonly (readonly [
    expression: string,
    type: 'bigint' | 'text' | 'hex',
    lowest: number | string,
  ])[];
  /** The column that may be large. */
  readonly large?: string;
  /** Where another table than the one that is read is written. */
  readonly into?: string;
}

const NUMBER = (column: string) => [[column, 'bigint', -1]] as const;
/** Texts go by their bytes, as in every engine, whatever the order of the database is. */
const TEXT = (column: string) => [[`${column} collate "C"`, 'text', '']] as const;

const TABLES: { readonly [Part in TablePart]: PartTable } = {
  records: {
    from: 'record',
    key: NUMBER('id'),
    columns: {
      id: ['id', 'int'],
      kind: ['kind', 'text'],
      name: ['name', 'text'],
      version: ['version', 'int'],
      gone: ['gone', 'flag'],
      document: ['document', 'text'],
    },
    large: 'document',
  },
  audit: {
    from: 'audit',
    key: NUMBER('id'),
    columns: {
      at: ['at', 'bigint'],
      by: ['by', 'text'],
      action: ['action', 'text'],
      kind: ['kind', 'text'],
      name: ['name', 'text'],
      before: ['before', 'text'],
      after: ['after', 'text'],
    },
    large: 'after',
  },
  skipSets: {
    from: 'skip_set',
    key: NUMBER('id'),
    columns: { id: ['id', 'int'], document: ['document', 'text'] },
    large: 'document',
  },
  plans: {
    from: 'delivery_plan',
    key: NUMBER('id'),
    columns: { id: ['id', 'int'], document: ['document', 'text'] },
    large: 'document',
  },
  producers: {
    from: 'producer',
    key: TEXT('name'),
    columns: { name: ['name', 'text'], sequence: ['sequence', 'bigint'] },
  },
  endpoints: { from: 'endpoint', key: NUMBER('id'), columns: { id: ['id', 'int'], url: ['url', 'text'] } },
  acceptedRequests: {
    from: 'accepted_attempt',
    key: NUMBER('id'),
    columns: {
      destination: ['destination', 'int'],
      endpoint: ['endpoint', 'int'],
      first: ['first', 'bigint'],
      last: ['last', 'bigint'],
      at: ['at', 'bigint'],
      facts: ['facts', 'bytea'],
    },
    large: 'facts',
  },
  failedRequests: {
    from: 'failed_attempt',
    key: NUMBER('id'),
    columns: {
      position: ['position', 'bigint'],
      destination: ['destination', 'int'],
      startedAt: ['started_at', 'bigint'],
      latencyMs: ['latency_ms', 'float8'],
      endpoint: ['endpoint', 'text'],
      kind: ['kind', 'text'],
      reason: ['reason', 'text'],
      status: ['status', 'int'],
      answer: ['answer', 'utf8'],
    },
    large: 'answer',
  },
  pending: {
    from: 'pending',
    key: NUMBER('id'),
    columns: {
      destination: ['destination', 'int'],
      due: ['due', 'bigint'],
      since: ['since', 'bigint'],
      first: ['first', 'bigint'],
      last: ['last', 'bigint'],
      n: ['n', 'int'],
      tried: ['tried', 'int'],
      origin: ['origin', 'text'],
      refs: ['refs', 'bytea'],
    },
    large: 'refs',
  },
  deadLetters: {
    from: 'dead_letter',
    key: NUMBER('id'),
    columns: {
      destination: ['destination', 'int'],
      at: ['at', 'bigint'],
      state: ['state', 'text'],
      reason: ['reason', 'text'],
      note: ['note', 'utf8'],
      first: ['first', 'bigint'],
      last: ['last', 'bigint'],
      n: ['n', 'int'],
      origin: ['origin', 'text'],
      refs: ['refs', 'bytea'],
    },
    large: 'refs',
  },
  origins: {
    from: 'origin',
    key: TEXT('id'),
    columns: { id: ['id', 'text'], cursor: ['cursor', 'bigint'], events: ['events', 'bigint'] },
  },
  // Each process counts in rows of its own.
  ledger: {
    from: '(select scope, id, name, sum(value)::bigint as value from ledger group by scope, id, name having sum(value) <> 0) l',
    key: [...TEXT('scope'), ...NUMBER('id'), ...TEXT('name')],
    columns: {
      scope: ['scope', 'text'],
      id: ['id', 'int'],
      name: ['name', 'text'],
      value: ['value', 'bigint'],
    },
    into: 'ledger',
  },
  endpointHealth: {
    from: 'endpoint_health',
    key: NUMBER('destination'),
    columns: { destination: ['destination', 'int'], endpoints: ['endpoints', 'text'] },
    large: 'endpoints',
  },
  regulations: {
    from: 'regulation',
    key: NUMBER('number'),
    columns: {
      number: ['number', 'int'],
      id: ['id', 'text'],
      open: ['open', 'flag'],
      document: ['document', 'text'],
      hashes: ['hashes', 'bytea'],
    },
    large: 'document',
  },
  regulationSubjects: {
    from: 'regulation_subject',
    key: NUMBER('number'),
    columns: { number: ['number', 'int'], subjects: ['subjects', 'text'] },
    large: 'subjects',
  },
  suppressions: {
    from: 'suppression',
    key: [['hash', 'hex', '']],
    columns: {
      hash: ['hash', 'bytea'],
      owner: ['owner', 'bytea'],
      id: ['id', 'utf8'],
      since: ['since', 'bigint'],
      regulation: ['regulation', 'text'],
    },
  },
  profiles: {
    from: 'profile',
    key: NUMBER('id'),
    columns: { id: ['id', 'bigint'], state: ['body', 'bytea'] },
    large: 'state',
  },
  identities: {
    from: 'profile_identity',
    key: NUMBER('key'),
    columns: { key: ['key', 'bigint'], profile: ['profile', 'bigint'] },
  },
  timers: {
    from: 'profile_timer',
    key: [...NUMBER('minute'), ...NUMBER('profile')],
    columns: { minute: ['minute', 'bigint'], profile: ['profile', 'bigint'] },
  },
  outbox: {
    from: 'profile_outbox',
    key: NUMBER('sequence'),
    columns: { sequence: ['sequence', 'bigint'], profile: ['profile', 'bigint'], json: ['json', 'text'] },
    large: 'json',
  },
  merges: {
    from: 'profile_merge',
    key: [...NUMBER('winner'), ...NUMBER('position'), ...NUMBER('loser')],
    columns: {
      winner: ['winner', 'bigint'],
      position: ['position', 'bigint'],
      loser: ['loser', 'bigint'],
      body: ['body', 'text'],
    },
    large: 'body',
  },
  profileDocuments: {
    from: 'profile_document',
    key: TEXT('name'),
    columns: { name: ['name', 'text'], body: ['body', 'text'] },
    large: 'body',
  },
};

/**
 * Columns of a part that stand in its table and in no row, with what is written there: `$1` is the first
 * column behind those of the row.
 */
const ADDED: Readonly<
  Partial<Record<TablePart, readonly (readonly [column: string, expression: string])[]>>
> = {
  skipSets: [['digest', `sha256(convert_to(document, 'UTF8'))`]],
  plans: [['digest', `sha256(convert_to(document, 'UTF8'))`]],
  ledger: [['process', '0']],
};

/** Reads a page of a part behind a cursor. */
export async function readPage<Part extends TablePart>(
  read: Transaction,
  part: Part,
  after?: PartCursor,
): Promise<PartPage<InstallationTables[Part]>> {
  const { key, columns } = TABLES[part];
  const cursor = after ?? key.map(([, , lowest]) => lowest);
  const stored = await read.rows<Record<string, unknown>>(READ[part], [...cursor]);
  const rows = stored.map((row) => rowOf(columns, row) as unknown as InstallationTables[Part]);
  const last = stored.at(-1);
  // A page that ends because of its bytes is never empty, and the one behind the last is.
  if (last === undefined || (stored.length < PAGE_ROWS && last['is_whole'] === true)) return { rows };
  return { rows, next: key.map((_, nth) => last[`key_${nth}`] as number | string) };
}

function rowOf(columns: PartTable['columns'], stored: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(columns).map(([name, [, type]]) => {
      const value = stored[name];
      return [name, type === 'utf8' && value !== null ? (value as Buffer).toString() : value];
    }),
  );
}

/** Writes rows of a part. `before`: how many were written earlier. */
export function writeRows<Part extends TablePart>(
  write: Transaction,
  part: Part,
  rows: readonly InstallationTables[Part][],
  before: number,
): void {
  const values = Object.entries(TABLES[part].columns).map(([name, [, type]]) =>
    rows.map((row) => {
      const value = (row as unknown as Record<string, unknown>)[name] ?? null;
      return type === 'utf8' && value !== null ? Buffer.from(value as string) : value;
    }),
  );
  // No process has the number 0, so that none makes a set with such an id.
  if (part === 'pending') values.push(rows.map((_, nth) => before + nth + 1));
  write.later(WRITE[part], values);
}

const PARTS = Object.keys(TABLES) as TablePart[];
const READ = Object.fromEntries(PARTS.map((part) => [part, readStatement(part)])) as Record<
  TablePart,
  Statement
>;
const WRITE = Object.fromEntries(PARTS.map((part) => [part, writeStatement(part)])) as Record<
  TablePart,
  Statement
>;

/** One parameter for each column of the key. `is_whole`: no row was left out for want of room. */
function readStatement(part: TablePart): Statement {
  const { from, key, columns, large } = TABLES[part];
  const order = key.map(([expression]) => expression).join(', ');
  const parameters = key.map(([, type], nth) =>
    type === 'hex' ? `decode($${nth + 1}::text, 'hex')` : `$${nth + 1}::${type}`,
  );
  const keys = key.map(([expression, type], nth) =>
    type === 'hex' ? `encode(${expression}, 'hex') as key_${nth}` : `${expression} as key_${nth}`,
  );
  const shown = Object.entries(columns).map(([name, [column, type]]) =>
    type === 'flag' ? `${column}::int as "${name}"` : `${column} as "${name}"`,
  );
  const size = large === undefined ? '0' : `coalesce(octet_length(${TABLES[part].columns[large]![0]}), 0)`;
  return {
    name: `migration.read_${part}`,
    text: `select *, count(*) over () = page_rows as is_whole from (
      select ${[...shown, ...keys].join(', ')}, count(*) over () as page_rows, row_number() over (order by ${order}) as page_nth,
        sum(${size}) over (order by ${order} rows unbounded preceding) - ${size} as page_bytes
      from (select * from ${from} where (${order}) > (${parameters.join(', ')}) order by ${order} limit ${PAGE_ROWS}) page
      ) weighed where page_bytes < ${PAGE_BYTES} order by page_nth`,
  };
}

function writeStatement(part: TablePart): Statement {
  const { from, columns, into } = TABLES[part];
  const all = Object.entries(columns);
  const added = ADDED[part] ?? [];
  const own: (readonly [string, string])[] = all.map(([name, [column, type]]) => [
    column,
    type === 'flag' ? `"${name}" = 1` : `"${name}"`,
  ]);
  const types = all.map(([, [, type]]) => ({ utf8: 'bytea', flag: 'int' })[type as string] ?? type);
  const names = all.map(([name]) => `"${name}"`);
  if (part === 'pending') {
    own.push(['id', 'id']);
    types.push('bigint');
    names.push('id');
  }
  const written = [...own, ...added];
  return {
    name: `migration.write_${part}`,
    text: `insert into ${into ?? from}(${written.map(([column]) => column).join(', ')}) overriding system value
      select ${written.map(([, expression]) => expression).join(', ')}
      from unnest(${types.map((type, nth) => `$${nth + 1}::${type}[]`).join(', ')}) u(${names.join(', ')})`,
  };
}
