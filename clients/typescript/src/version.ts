/** The version of the package, which a test compares with its manifest. */
export const VERSION = '0.1.0';
