import type { TextForNumber, UnknownName } from '../../ports/users.ts';
import type { Fault } from '../problem.ts';

/** A number is wanted of values that are text. */
export function textWarning({ kind, name, use, texts, values }: TextForNumber): Fault {
  const wanted = use === 'compared' ? 'compares with a number' : 'reckons with';
  const message =
    `${wanted} the ${kind} ${JSON.stringify(name)}, and ${texts} of ${values} values are text: ` +
    `${use === 'compared' ? 'text fits no condition on numbers' : 'they are left out'}`;
  return { path: 'body.definition', message };
}

/** Words for stored events and profiles, by their kind. */
const WHAT = { track: 'event', page: 'page', screen: 'screen' } as const;

/** A name occurs nowhere. */
export function nameWarning({ kind, name, closest }: UnknownName): Fault {
  const hint = closest === undefined ? '' : ` (did you mean ${quotedName(closest)}?)`;
  if (kind === 'trait')
    return {
      path: 'body.definition',
      message: `names a trait that nobody has: no profile has the trait ${quotedName(name)}${hint}`,
    };
  const nothing = name === '' ? 'has no name' : `is called ${quotedName(name)}`;
  const message = `names what never occurred: no stored ${WHAT[kind]} ${nothing}${hint}`;
  return { path: 'body.definition', message };
}

function quotedName(name: string): string {
  return `'${JSON.stringify(name).slice(1, -1)}'`;
}
