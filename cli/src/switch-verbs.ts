import { answered } from './answered.ts';
import { count, minuteOf, printable } from './column.ts';
import type { DestinationOptions } from './control-verbs.ts';
import type { ExitCode, RunContext } from './run-context.ts';

/** The answer of `POST destinations/{name}/pause` and its siblings. */
interface Switched {
  readonly name: string;
  readonly enabled: boolean;
  readonly paused: boolean;
  readonly pending: number;
  readonly oldestKeptUntil?: string;
}

type Verb = 'pause' | 'resume' | 'disable' | 'enable';

/** `millrace pause DESTINATION`: holds back all its deliveries, also new ones, until `resume`. */
export function pause(options: DestinationOptions, context: RunContext): Promise<ExitCode> {
  return switched('pause', options, context);
}

/** `millrace resume DESTINATION`: ends a pause. */
export function resume(options: DestinationOptions, context: RunContext): Promise<ExitCode> {
  return switched('resume', options, context);
}

/** `millrace disable DESTINATION`: new events skip it. */
export function disable(options: DestinationOptions, context: RunContext): Promise<ExitCode> {
  return switched('disable', options, context);
}

/** `millrace enable DESTINATION`: ends `disable`. */
export function enable(options: DestinationOptions, context: RunContext): Promise<ExitCode> {
  return switched('enable', options, context);
}

/** Ends with 1 when the destination still gets nothing after `resume` or `enable`. */
async function switched(verb: Verb, options: DestinationOptions, context: RunContext): Promise<ExitCode> {
  const path = `destinations/${encodeURIComponent(options.destination)}/${verb}`;
  const reply = await answered(options, context, { path, method: 'POST', body: {} });
  if (typeof reply === 'number') return reply;
  if (!isSwitched(reply.value)) {
    context.err.write(
      'millrace: the server speaks of its destinations in another way: is it of this version?\n',
    );
    return 1;
  }
  const held = stillHeld(verb, reply.value);
  if (held !== undefined) context.err.write(`millrace: ${held}.\n`);
  if (options.json) context.out.write(`${reply.text}\n`);
  else if (held === undefined) context.out.write(`${sentencesOf(verb, reply.value)}\n`);
  return held === undefined ? 0 : 1;
}

function sentencesOf(verb: Verb, { name, enabled, pending, oldestKeptUntil }: Switched): string {
  const one = printable(name);
  const until = oldestKeptUntil === undefined ? '' : `, the oldest until ${minuteOf(oldestKeptUntil)}`;
  const kept =
    pending === 0
      ? 'Nothing waits yet; what waits is kept as long as retention.events says.'
      : `${deliveries(pending)} ${pending === 1 ? 'waits' : 'wait'}; they are kept as long as retention.events says${until}.`;
  if (verb === 'pause' && enabled)
    return `${one} is paused: what arrives from now on waits too, until millrace resume ${one}. ${kept}`;
  if (verb === 'pause')
    return `${one} is paused. It is disabled as well: what arrives is skipped until millrace enable ${one}. ${kept}`;
  if (verb === 'disable')
    return `${one} is disabled: what arrives from now on is skipped, and never sent. To keep it: millrace pause ${one}. ${kept}`;
  const sent =
    pending === 0
      ? 'nothing has waited'
      : `the ${deliveries(pending)} that ${pending === 1 ? 'waits is' : 'wait are'} sent now`;
  return `${one} is ${verb}d: ${sent}.`;
}

/** The reason why nothing is sent. Absent when deliveries are sent. */
function stillHeld(verb: Verb, { name, enabled, paused }: Switched): string | undefined {
  const one = printable(name);
  if (verb === 'resume' && !enabled)
    return `${one} is disabled: what arrives is skipped, and what it is owed waits, until millrace enable ${one}`;
  if (verb === 'enable' && paused)
    return `${one} is enabled, and still paused: everything for it waits, until millrace resume ${one}`;
  return undefined;
}

function deliveries(n: number): string {
  return `${count(n)} ${n === 1 ? 'delivery' : 'deliveries'}`;
}

/** Checks only enough to recognise another version. */
function isSwitched(value: unknown): value is Switched {
  return typeof value === 'object' && value !== null && 'paused' in value && 'pending' in value;
}
