import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DAY } from '../../../src/model/time.ts';
import { SettableClock } from '../../support/clock-shim/settable-clock.ts';
import { ControlApi } from '../../support/control-api.ts';
import { compiled } from '../../support/disk-faults/compile.ts';
import { checkedOut } from '../../support/earlier-program.ts';
import { makePlace, type Place, type Program, startServer } from '../../support/program.ts';
import type { TestReceiver } from '../../support/receiver.ts';
import { alterStore, dumpStore, loadStore } from '../../support/test-database.ts';
import { ADMIN_TOKEN, CONFIG, Life, PROXY } from './life.ts';

/**
 * The last commit before sources had a trust, profiles and records a retention, and destinations a memory of
 * what they were told.
 */
export const BEFORE = '1e7473d4539e153394bd80119f5ab479fb7f2842';

/** The program ran so long before it ended. */
const AGE = 400 * DAY;

const ENGINE = process.env['MILLRACE_TEST_DATABASE'] ?? 'sqlite';
/**
 * The data folder that the earlier version left, with what is known of the version and, with PostgreSQL, the
 * database beside its files.
 */
const archiveOf = (engine: string) => join(import.meta.dirname, `${engine}.tar.gz`);
const BEFORE_JSON = 'before.json';
const DUMP = 'database.sql';

/** Facts about the earlier version at its end. */
interface Before {
  /** `Life.told`. */
  readonly told: Readonly<Record<string, unknown>>;
  /** Tokens by name. */
  readonly tokens: Readonly<Record<string, string>>;
  /** Headers of a session of the console. */
  readonly session: Readonly<Record<string, string>>;
}

/** The data folder and the database that the earlier version left, in a place of their own. */
export function openFixture(): { readonly place: Place; readonly before: Before } {
  const place = makePlace(CONFIG);
  const { dump, before } = unpackFixture(place.data, ENGINE);
  if (dump !== undefined) loadStore(place.data, dump);
  return { place, before };
}

/**
 * Makes the data folder that the earlier version left; `dump`: the statements that make its database, where
 * it had one.
 */
export function unpackFixture(
  data: string,
  engine: string,
): { readonly dump?: string; readonly before: Before } {
  mkdirSync(data, { mode: 0o700 });
  execFileSync('tar', ['xzf', archiveOf(engine), '-C', data]);
  const [json, sql] = [BEFORE_JSON, DUMP].map((name) => join(data, name)) as [string, string];
  const before = JSON.parse(readFileSync(json, 'utf8')) as Before;
  const dump = existsSync(sql) ? { dump: readFileSync(sql, 'utf8') } : {};
  for (const file of [json, sql]) rmSync(file, { force: true });
  return { ...dump, before };
}

/**
 * Makes the fixture anew, by the program of the commit: it wants the history of git, and a compiler for the
 * clock.
 */
export async function writeFixture(receiver: TestReceiver, proxy: string): Promise<void> {
  const scratch = mkdtempSync(join(tmpdir(), 'millrace-upgrade-'));
  const clock = new SettableClock(compiled('cc', '../clock-shim/clock.c', join(scratch, 'clock.so')));
  const earlier = checkedOut(BEFORE);
  const place = makePlace(CONFIG);
  loadStore(place.data);
  const env = { [PROXY]: proxy, ...clock.env };
  const start = () => startServer(place, { env, millrace: join(earlier, 'cli/bin/millrace.js') });
  let program: Program | undefined;
  try {
    const api = new ControlApi(() => ({ url: program!.url, token: ADMIN_TOKEN }));
    const life = new Life(() => program!.url, api, receiver);
    clock.step(-AGE);
    program = await start();
    const tokens = await life.longAgo();
    await program.stop();
    clock.step(AGE);
    // It would take the time for a wrong clock: no machine rests for so long.
    await alterStore(place.data, `delete from installation where name = 'clocks'`);
    program = await start();
    await life.lately();
    const before: Before = { tokens, session: await life.signIn(), told: await life.told() };
    await program.stop();
    writeFileSync(join(place.data, BEFORE_JSON), JSON.stringify(before));
    const dump = dumpStore(place.data);
    if (dump !== undefined) writeFileSync(join(place.data, DUMP), dump);
    execFileSync('tar', ['czf', archiveOf(ENGINE), '--owner=0', '--group=0', '-C', place.data, '.']);
  } finally {
    await program?.kill();
    clock.remove();
    place.remove();
    for (const folder of [scratch, earlier]) rmSync(folder, { recursive: true, force: true });
  }
}
