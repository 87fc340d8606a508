import { InvalidArgumentError } from 'commander';

/** Parses a JSON object from the command line. Throws an `InvalidArgumentError` that names the right form. */
export function jsonObject(text: string): object {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The throw below reports it.
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw new InvalidArgumentError(`It is a JSON object, such as '{"total":9}'.`);
}
