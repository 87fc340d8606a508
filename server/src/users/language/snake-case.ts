/**
 * The key of an audience or of a computed trait: its name in snake case; empty when no ASCII letter and no digit is in it.
 * spec/specification.md, "Keys of audiences".
 */
export function snakeCase(name: string): string {
  return name
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== '')
    .join('_')
    .toLowerCase();
}
