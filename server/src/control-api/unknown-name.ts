import { closestWord } from '../model/closest-word.ts';
import { Problem } from './problem.ts';

/**
 * The problem of a name that none of the records has. It names the one that was probably meant, or else where
 * all are listed.
 *
 * @param noun what the record is, such as `source`
 * @param list where the API lists them
 */
export function unknownName(
  name: string,
  noun: string,
  records: readonly { readonly name: string }[],
  list: string = `${noun}s`,
): Problem {
  const meant = closestWord(
    name,
    records.map((record) => record.name),
  );
  const next =
    meant === undefined
      ? `; GET /api/v1/${list} lists them.`
      : `; the nearest name is ${JSON.stringify(meant)}.`;
  return new Problem('unknown_name', { hint: `${JSON.stringify(name)} is no ${noun}${next}` });
}
