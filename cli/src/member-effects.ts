import { count, printable } from './column.ts';
import { PREVIEW_PATIENCE, type ShownPreview, soFar } from './computations.ts';
import { askControl, type ControlAddress } from './control-api.ts';
import type { Plan } from './plan-report.ts';

/** Most previews of one plan: each of them reads all stored events. */
const MAX_PREVIEWS = 20;

/**
 * Tells how a plan changes the members of audiences and the users with a computed trait, a line for each. An
 * effect that is unknown, such as that of an audience made of another new one, is left out.
 */
export async function memberEffects({ changes }: Plan, address: ControlAddress): Promise<readonly string[]> {
  const lines: string[] = [];
  const concerned = changes.filter(
    ({ kind, before, after }) =>
      (kind === 'audience' || kind === 'trait') && whatCounts(before) !== whatCounts(after),
  );
  for (const { kind, name, action, after } of concerned.slice(0, MAX_PREVIEWS)) {
    if (action === 'removed') {
      lines.push(...(await removalEffect(kind as 'audience' | 'trait', name, address)));
      continue;
    }
    const { definition, includeAnonymous } = Object(after) as Readonly<Record<string, unknown>>;
    const reply = await askControl(address, `${kind}s/preview`, {
      method: 'POST',
      body: { definition, name, includeAnonymous: kind === 'audience' ? includeAnonymous : undefined },
      patience: PREVIEW_PATIENCE,
    });
    if (reply.kind === 'failed') continue;
    const shown = reply.value as ShownPreview;
    const { members, enters, leaves } = shown;
    const users = `${count(members)} ${members === 1 ? 'user' : 'users'}`;
    const moves = action === 'created' ? '' : `: ${count(enters)} enter, ${count(leaves)} leave`;
    lines.push(`${kind} ${printable(name)} would have ${users}${moves}${soFar(shown)}`);
  }
  return lines;
}

/**
 * Says what destinations hear of the members of an audience, or of the values of a trait, when it is removed.
 */
async function removalEffect(
  kind: 'audience' | 'trait',
  name: string,
  address: ControlAddress,
): Promise<readonly string[]> {
  const reply = await askControl(address, `${kind}s/${encodeURIComponent(name)}`, { method: 'GET' });
  if (reply.kind === 'failed') return [];
  const { members } = reply.value as { readonly members: number };
  const users = `${count(members)} ${members === 1 ? 'user' : 'users'}`;
  const known = kind === 'audience' ? 'as members' : 'with their last value';
  return [
    `${kind} ${printable(name)} has ${users}: destinations are told nothing, and go on knowing them ${known}`,
  ];
}

/** The parts of a record that decide its members. */
function whatCounts(record: object | undefined): string {
  const { definition, includeAnonymous } = Object(record) as Readonly<Record<string, unknown>>;
  return JSON.stringify([definition, includeAnonymous]);
}
