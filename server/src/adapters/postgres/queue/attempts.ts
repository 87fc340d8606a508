import type { Attempt } from '../../../model/delivery.ts';
import type { Position } from '../../../model/event.ts';
import type { Monotonic } from '../../../model/time.ts';
import type { DeliveryResult } from '../../../ports/delivery-queue.ts';
import {
  ANSWER_ROWS,
  type AnswerPage,
  answerPage,
  type KeptAnswer,
  type KeptText,
} from '../../encoding/kept-answers.ts';
import {
  acceptedWith,
  decodeAttempts,
  ROW_SPAN,
  type SuccessfulAttemptRows,
} from '../../encoding/results.ts';
import type { Database, Statement, Transaction } from '../database.ts';

const ADD_URLS: Statement = {
  name: 'endpoint.add',
  text: 'insert into endpoint(url) select url from unnest($1::text[]) url order by url on conflict do nothing',
};

const URLS: Statement = {
  name: 'endpoint.ids',
  text: 'select id, url from endpoint where url = any($1::text[])',
};

const INSERT_ACCEPTED: Statement = {
  name: 'accepted_attempt.insert',
  text: `insert into accepted_attempt(destination, endpoint, first, last, at, facts)
    select * from unnest($1::int[], $2::int[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[])`,
};

const ACCEPTED: Statement = {
  name: 'accepted_attempt.between',
  text: `select a.destination, e.url, a.first, a.at, a.facts from accepted_attempt a join endpoint e on e.id = a.endpoint
    where a.first > $1::bigint - ${ROW_SPAN} and a.first <= $2 and a.last >= $1`,
};

const DROP_ACCEPTED: Statement = {
  name: 'accepted_attempt.drop',
  text: `with old as materialized (
      select id from accepted_attempt where first < $1::bigint - ${ROW_SPAN} order by first limit 256
    ) delete from accepted_attempt a using old where a.id = old.id returning a.id`,
};

const INSERT_FAILED: Statement = {
  name: 'failed_attempt.insert',
  text: `insert into failed_attempt(position, destination, started_at, latency_ms, endpoint, kind, reason, status, answer)
    select * from unnest($1::bigint[], $2::int[], $3::bigint[], $4::float8[], $5::text[], $6::text[], $7::text[], $8::int[],
      $9::bytea[])`,
};

const FAILED: Statement = {
  name: 'failed_attempt.of',
  text: `select position, destination, started_at as "startedAt", latency_ms as "latencyMs", endpoint, kind, reason, status, answer
    from failed_attempt where position = any($1::bigint[]) order by id`,
};

const ERASE_FAILED: Statement = {
  name: 'failed_attempt.erase',
  text: 'delete from failed_attempt where position = any($1::bigint[])',
};

const ANSWERS: Readonly<Record<KeptText, Statement>> = {
  answer: {
    name: 'failed_attempt.answers',
    text: `select id, answer from failed_attempt where id > $1 order by id limit ${ANSWER_ROWS}`,
  },
  note: {
    name: 'dead_letter.notes',
    text: `select id, note as answer from dead_letter where note is not null and id > $1 order by id limit ${ANSWER_ROWS}`,
  },
};

const PUT_ANSWERS: Readonly<Record<KeptText, Statement>> = {
  answer: {
    name: 'failed_attempt.put_answers',
    text: `update failed_attempt f set answer = changed.answer
      from unnest($1::bigint[], $2::bytea[]) changed(id, answer) where f.id = changed.id`,
  },
  note: {
    name: 'dead_letter.put_notes',
    text: `update dead_letter d set note = changed.answer
      from unnest($1::bigint[], $2::bytea[]) changed(id, answer) where d.id = changed.id`,
  },
};

const DROP_FAILED: Statement = {
  name: 'failed_attempt.drop',
  text: `with old as materialized (select id, started_at, position from failed_attempt order by id limit 256)
    delete from failed_attempt f using old where f.id = old.id and old.started_at < $1 and old.position < $2 returning f.id`,
};

/** A request for an event to a destination. */
export interface LoggedAttempt {
  readonly position: Position;
  readonly destination: number;
  readonly attempt: Attempt;
}

/**
 * Numbers of URLs, which accepted requests name. They are stored ahead of the transaction that needs them.
 */
export class EndpointNumbers {
  readonly #database: Database;
  readonly #numbers = new Map<string, number>();

  constructor(database: Database) {
    this.#database = database;
  }

  async of(urls: Iterable<string>): Promise<ReadonlyMap<string, number>> {
    const missing = [...new Set(urls)].filter((url) => !this.#numbers.has(url));
    if (missing.length > 0) {
      const rows = await this.#database.write((transaction) => {
        transaction.later(ADD_URLS, [missing]);
        return transaction.rows<{ id: number; url: string }>(URLS, [missing]);
      });
      for (const { id, url } of rows) this.#numbers.set(url, id);
    }
    return this.#numbers;
  }
}

export function insertAccepted(
  transaction: Transaction,
  accepted: SuccessfulAttemptRows,
  numbers: ReadonlyMap<string, number>,
): void {
  const rows = [...accepted.rows()];
  if (rows.length === 0) return;
  transaction.later(INSERT_ACCEPTED, [
    rows.map(({ destination }) => destination),
    rows.map(({ endpoint }) => numbers.get(endpoint)),
    rows.map(({ first }) => first),
    rows.map(({ last }) => last),
    rows.map(({ at }) => at),
    rows.map(({ facts }) => facts),
  ]);
}

/** Keeps the failed requests of these results, a row each, with the endpoint's answer. */
export function insertFailed(transaction: Transaction, results: readonly DeliveryResult[]): void {
  const rows = results.flatMap(({ position, destination, attempts }) =>
    attempts
      .filter(({ outcome }) => outcome.kind !== 'accepted')
      .map((attempt) => ({ position, destination, attempt })),
  );
  if (rows.length === 0) return;
  transaction.later(INSERT_FAILED, [
    rows.map(({ position }) => position),
    rows.map(({ destination }) => destination),
    rows.map(({ attempt }) => Math.floor(attempt.startedAt)),
    rows.map(({ attempt }) => attempt.latencyMs),
    rows.map(({ attempt }) => attempt.endpoint),
    rows.map(({ attempt }) => attempt.outcome.kind),
    rows.map(({ attempt }) => attempt.outcome.reason),
    rows.map(({ attempt }) => attempt.outcome.status ?? null),
    // Bytes, because a text of PostgreSQL cannot hold U+0000, and an endpoint may answer anything.
    rows.map(({ attempt: { answer } }) => (answer === undefined ? null : Buffer.from(answer))),
  ]);
}

/**
 * The requests for these events: the failed ones in the order in which they ended, then the accepted ones.
 */
export async function attemptsOf(
  transaction: Transaction,
  groups: readonly (readonly Position[])[],
): Promise<LoggedAttempt[]> {
  const positions = groups.flat();
  const wanted = new Set(positions);
  const [failed, ...accepted] = await Promise.all([
    transaction.rows<FailedAttemptRow>(FAILED, [positions]),
    ...groups.map((group) => transaction.rows<AcceptedAttemptRow>(ACCEPTED, [group[0], group.at(-1)])),
  ]);
  return [
    ...failed.map(toFailed),
    ...accepted.flat().flatMap((row) => toAccepted(row).filter(({ position }) => wanted.has(position))),
  ];
}

function toFailed({ position, destination, ...row }: FailedAttemptRow): LoggedAttempt {
  const { startedAt, latencyMs, endpoint, kind, reason, status, answer } = row;
  const outcome = { kind, reason, status: status ?? undefined };
  return {
    position,
    destination,
    attempt: { endpoint, startedAt, latencyMs, outcome, answer: answer?.toString() },
  };
}

function toAccepted({ destination, url, first, at, facts }: AcceptedAttemptRow): LoggedAttempt[] {
  return decodeAttempts(facts, first, at).map(({ position, startedAt, latencyMs, status }) => {
    const outcome = acceptedWith(status);
    return { position, destination, attempt: { endpoint: url, startedAt, latencyMs, outcome } };
  });
}

/** Drops a slice of the accepted requests for events below a position. False when there are none. */
export async function dropAcceptedBelow(transaction: Transaction, position: Position): Promise<boolean> {
  return (await transaction.rows(DROP_ACCEPTED, [position])).length > 0;
}

/**
 * Drops a slice of the failed requests from before a time, but none of an event that is still kept. False
 * when there are none.
 */
export async function dropFailedBefore(
  transaction: Transaction,
  time: Monotonic,
  retainedFrom: Position,
): Promise<boolean> {
  return (await transaction.rows(DROP_FAILED, [time, retainedFrom])).length > 0;
}

/** Drops the failed requests for these events: an endpoint's answer may repeat their content. */
export function eraseAttempts(transaction: Transaction, positions: Iterable<Position>): void {
  transaction.later(ERASE_FAILED, [[...positions]]);
}

/** The answers of the rows behind one. */
export async function answersAfter(read: Transaction, text: KeptText, after: number): Promise<AnswerPage> {
  const rows = await read.rows<{ id: number; answer: Buffer | null }>(ANSWERS[text], [after]);
  return answerPage(
    rows.map(({ id, answer }) => ({ id, answer: answer === null ? null : answer.toString() })),
  );
}

/** Replaces answers. The old ones stay in the file until `scrubLog`. */
export function putAnswers(transaction: Transaction, text: KeptText, changed: readonly KeptAnswer[]): void {
  transaction.later(PUT_ANSWERS[text], [
    changed.map(({ id }) => id),
    changed.map(({ answer }) => Buffer.from(answer)),
  ]);
}

interface AcceptedAttemptRow {
  readonly destination: number;
  readonly url: string;
  readonly first: Position;
  readonly at: Monotonic;
  readonly facts: Uint8Array;
}

interface FailedAttemptRow {
  readonly position: Position;
  readonly destination: number;
  readonly startedAt: Monotonic;
  readonly latencyMs: number;
  readonly endpoint: string;
  readonly kind: 'retryable' | 'refused';
  readonly reason: string;
  readonly status: number | null;
  readonly answer: Buffer | null;
}
