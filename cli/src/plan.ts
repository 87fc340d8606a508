import { resolve } from 'node:path';
import { ConfigError, type FileRecords, readRecords } from '@millrace/server/config';
import {
  askControl,
  type ControlAddress,
  type ControlFlags,
  type ControlReply,
  controlAddress,
} from './control-api.ts';
import { memberEffects } from './member-effects.ts';
import { paintFor } from './paint.ts';
import { type Plan, planReport, sumOf } from './plan-report.ts';
import { canBeAsked, isConfirmed } from './question.ts';
import { STANDARD_INPUT } from './standard-input.ts';
import type { ExitCode, Surroundings } from './surroundings.ts';
import { readTextOf } from './text-file.ts';

export interface PlanOptions extends ControlFlags {
  readonly file: string;
  readonly prune?: boolean;
  readonly json?: boolean;
}

export interface ApplyOptions extends PlanOptions {
  readonly yes?: boolean;
  readonly dryRun?: boolean;
}

/** `millrace plan -f FILE`: shows the changes that applying a file would make. Changes nothing. */
export async function plan(options: PlanOptions, place: Surroundings): Promise<ExitCode> {
  const wish = await wishOf(options, place);
  if (wish === undefined) return 2;
  const planned = await put(wish, { dryRun: true }, place);
  if (planned === undefined) return 1;
  show(planned, options, place);
  if (!options.json) await tellEffects(wish, planned.plan, place.out);
  warn(wish, planned.plan, place);
  return 0;
}

/** Adds what happens to the members of audiences, which takes a look at all stored events. */
async function tellEffects(
  { address }: Wish,
  planned: Plan,
  out: Pick<Surroundings['out'], 'write'>,
): Promise<void> {
  for (const line of await memberEffects(planned, address)) out.write(`${line}.\n`);
}

/**
 * `millrace apply -f FILE`: changes the sources and destinations of a running server to those of a file, all or none.
 * spec/contract.md, "Verbs that change".
 */
export async function apply(options: ApplyOptions, place: Surroundings): Promise<ExitCode> {
  if (options.dryRun) return await plan(options, place);
  const wish = await wishOf(options, place);
  if (wish === undefined) return 2;
  let confirm = options.yes === true;
  let shown: string | undefined;
  if (!confirm && canBeAsked(place)) {
    const planned = await put(wish, { dryRun: true }, place);
    if (planned === undefined) return 1;
    const { changes } = planned.plan;
    if (changes.length > 0) {
      place.err.write(planReport(planned.plan, paintFor(place.err, place.env)));
      await tellEffects(wish, planned.plan, place.err);
      shown = JSON.stringify(changes);
      if (!(await isConfirmed(`Change ${wish.address.url.origin} so?`, place))) {
        place.err.write('millrace: nothing was changed.\n');
        return 1;
      }
      confirm = true;
    }
  }
  const done = await put(wish, { confirm }, place);
  if (done === undefined) return 1;
  const isAsShown = shown === JSON.stringify(done.plan.changes);
  if (shown !== undefined && !isAsShown)
    place.err.write('millrace: somebody else changed the server meanwhile; what was changed now is this:\n');
  // The user has just read the full plan.
  if (isAsShown && place.out.isTTY && !options.json) place.out.write(`${sumOf(done.plan)}\n`);
  else show(done, options, place);
  warn(wish, done.plan, place);
  return 0;
}

interface Wish {
  readonly address: ControlAddress;
  readonly file: FileRecords;
  readonly path: string;
  readonly prune: boolean;
}

/** Returns `undefined` after printing the errors. */
async function wishOf(options: PlanOptions, place: Surroundings): Promise<Wish | undefined> {
  const address = controlAddress(options, place.env);
  if (typeof address === 'string') {
    place.err.write(`millrace: ${address}.\n`);
    return undefined;
  }
  const path = options.file === STANDARD_INPUT ? 'standard input' : options.file;
  const file = await recordsIn(options.file, path, place);
  if (file === undefined) return undefined;
  if (file.otherKeys.length > 0) {
    place.err.write(
      `millrace: ${file.otherKeys.join(', ')} of ${path}: read by millrace start, not sent to a running server.\n`,
    );
  }
  return { address, file, path, prune: options.prune === true };
}

async function recordsIn(file: string, path: string, place: Surroundings): Promise<FileRecords | undefined> {
  const text = await readTextOf(file, place.in);
  if (typeof text !== 'string') {
    const name = file === STANDARD_INPUT ? path : resolve(path);
    place.err.write(`millrace: the configuration file ${name} ${text.reason}.\n`);
    return undefined;
  }
  try {
    return readRecords({ path, text }, place.env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    place.err.write(`millrace: this file cannot be applied:\n${error.message}\n`);
    return undefined;
  }
}

interface Answered {
  readonly plan: Plan;
  readonly text: string;
}

/** Returns `undefined` after printing the reason. */
async function put(
  { address, file, path, prune }: Wish,
  { dryRun = false, confirm = false }: { readonly dryRun?: boolean; readonly confirm?: boolean },
  place: Surroundings,
): Promise<Answered | undefined> {
  const reply = await askControl(address, 'config', {
    method: 'PUT',
    query: {
      ...(dryRun ? { dryRun: 'true' } : {}),
      ...(prune ? { prune: 'true' } : {}),
      ...(confirm ? { confirm: 'true' } : {}),
    },
    body: {
      sources: file.sources,
      destinations: file.destinations,
      audiences: file.audiences,
      traits: file.traits,
      alerts: file.alerts,
    },
  });
  if (reply.kind === 'failed') {
    place.err.write(`millrace: ${refusal(reply, file, path)}\n`);
    return undefined;
  }
  if (isPlan(reply.value)) return { plan: reply.value, text: reply.text };
  place.err.write(
    `millrace: the server at ${address.url.origin} speaks of its configuration in another way: is it of this version?\n`,
  );
  return undefined;
}

/** The server's errors in the file, with line numbers where known. */
function refusal(
  { message, problem }: Extract<ControlReply, { kind: 'failed' }>,
  file: FileRecords,
  path: string,
): string {
  if (problem?.code === 'invalid_parameters') {
    const lines = problem.errors.map(({ path: at, message: said, place: inText }) =>
      file.lineAt(inFile(at), said, inText),
    );
    const more = problem.truncated ? ['There are more.'] : [];
    return [`the server refuses ${path}, and nothing was changed:`, ...lines, ...more].join('\n');
  }
  if (problem?.code === 'confirmation_needed') {
    const owed = problem.errors.map(
      (fault) => `  ${fault.path.replace(/^destinations /, 'destination ')} ${fault.message}`,
    );
    return [
      'nothing was changed, because this disconnects what something is still owed to:',
      ...owed,
      'Wait until it has been delivered (millrace status), or apply with --yes: a destination that is removed loses it to ' +
        'its dead letters, one that is disabled keeps it until it is enabled.',
    ].join('\n');
  }
  return `${message}.`;
}

function show({ plan, text }: Answered, { json }: PlanOptions, place: Surroundings): void {
  place.out.write(json ? `${text}\n` : planReport(plan, paintFor(place.out, place.env)));
}

function warn({ file }: Wish, { warnings = [] }: Plan, place: Surroundings): void {
  for (const { path, message } of warnings)
    place.err.write(`millrace: warning: ${file.lineAt(inFile(path), message)}\n`);
}

/** Translates a path of the request body into a path of the file. */
function inFile(path: string): string {
  return path.replace(/^body\.?/, '');
}

/** Checks only enough to recognise another program or version. */
function isPlan(value: unknown): value is Plan {
  return (
    typeof value === 'object' &&
    value !== null &&
    'changes' in value &&
    Array.isArray(value.changes) &&
    'kept' in value &&
    Array.isArray(value.kept) &&
    'disconnects' in value &&
    Array.isArray(value.disconnects)
  );
}
