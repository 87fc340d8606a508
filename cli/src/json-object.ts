import { InvalidArgumentError } from 'commander';

/** A JSON object on the command line; throws an `InvalidArgumentError` that says what would be right. */
export function jsonObject(text: string): object {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Said below.
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw new InvalidArgumentError(`It is a JSON object, such as '{"total":9}'.`);
}
