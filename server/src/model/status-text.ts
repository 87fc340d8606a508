/**
 * What each HTTP status is called, as in `Not Found`.
 *
 * Not imported: an import of `node:http` reads every name it exports, and one of them, `WebSocket`, loads all of Node's own
 * client (14 MB and 40 ms of each start), which nobody here uses. So whoever wants something of it asks like this.
 */
export const STATUS_TEXT = process.getBuiltinModule('node:http').STATUS_CODES;
