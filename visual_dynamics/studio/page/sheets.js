// The sheets of a character, chosen or dropped: one file as it is, several files or a folder as one ZIP.
import { RequestError } from "./messages.js";

const FOLDERS = ["standard", "custom", "credits"]; // of an export; others are not read
const MOST_FILES = 500, MOST_BYTES = 10_000_000; // as the studio has them
const TALLEST = 256; // pixels of a sheet of one animation; a universal one is taller
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

/** Files that were chosen: {name, blob}. A folder's have their paths. */
export function chosen(files) {
  return packed([...files].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
}

/** What was dropped: files, or a folder. */
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((entry) => entry.isDirectory)) return chosen(transfer.files);
  const found = [];
  for (const entry of entries) await gather(entry, "", found);
  return packed(found);
}

async function gather(entry, above, found) {
  const path = above + entry.name;
  if (entry.isFile) {
    if (found.length > 4 * MOST_FILES) throw new RequestError("this folder holds too many files for one character", 0);
    found.push({ path, file: await new Promise((resolve, reject) => entry.file(resolve, reject)) });
  } else if (path.split("/").length < 3) {
    const reader = entry.createReader();
    for (let part = [null]; part.length;) {
      part = await new Promise((resolve, reject) => reader.readEntries(resolve, reject)); // at most 100 at a time
      for (const each of part) await gather(each, `${path}/`, found);
    }
  }
}

async function packed(files) {
  if (files.length === 1 && await isWhole(files[0].file)) return { name: files[0].file.name, blob: files[0].file };
  const inFolder = files.every(({ path }) => path.includes("/"));
  const folder = inFolder ? files[0].path.split("/")[0] : "character";
  const inside = files.map(({ path, file }) => ({ path: inFolder ? path.slice(path.indexOf("/") + 1) : path, file }))
    .filter(({ path }) => isRead(path.split("/")));
  if (inside.some(({ path }) => /\.(zip|aseprite|ase)$/i.test(path)) && !inFolder) {
    throw new RequestError("choose one ZIP or Aseprite file, or several sheets, or a folder of sheets", 0);
  }
  if (!inside.length) throw new RequestError(`${folder} holds no sheets: they are files such as walk.png`, 0);
  const size = inside.reduce((sum, { file }) => sum + file.size, 0);
  if (inside.length > MOST_FILES || size > MOST_BYTES) {
    throw new RequestError(`${folder} holds too much for one character: at most ${MOST_FILES} files and 10 MB`, 0);
  }
  return { name: `${folder}.zip`, blob: await zip(inside) };
}

/** A ZIP, an Aseprite file, a universal sheet; or something else, which the studio reports. */
async function isWhole(file) {
  if (!file.name.toLowerCase().endsWith(".png")) return true;
  try {
    return (await createImageBitmap(file)).height > TALLEST;
  } catch {
    return true;
  }
}

function isRead(parts) {
  return !parts.at(-1).startsWith(".") && (parts.length === 1 || (parts.length === 2 && FOLDERS.includes(parts[0])));
}

/** A ZIP of files as they are: PNG is compressed already. */
async function zip(files) {
  const written = [], list = [];
  let place = 0;
  for (const { path, file } of files) {
    const [name, data] = [new TextEncoder().encode(path), new Uint8Array(await file.arrayBuffer())];
    const about = [20, 0x800, 0, 0, 0x21]; // version, names in UTF-8, stored, 1 January 1980
    const sizes = [checksum(data), data.length, data.length];
    list.push(fields([0x02014b50], [20, ...about], sizes, [name.length, 0, 0, 0, 0], [0, place]), name);
    const head = fields([0x04034b50], about, sizes, [name.length, 0]);
    written.push(head, name, data);
    place += head.length + name.length + data.length;
  }
  const length = list.reduce((sum, part) => sum + part.length, 0);
  const end = fields([0x06054b50], [0, 0, files.length, files.length], [length, place], [0]);
  return new Blob([...written, ...list, end], { type: "application/zip" });
}

/** Numbers of 4, 2, 4, 2, ... bytes, group by group. */
function fields(...groups) {
  const bytes = groups.flatMap((group, place) => group.flatMap((value) =>
    Array.from({ length: place % 2 ? 2 : 4 }, (_, byte) => (value >>> (8 * byte)) & 255)));
  return Uint8Array.from(bytes);
}

function checksum(data) {
  let value = 0xffffffff;
  for (const byte of data) value = TABLE[(value ^ byte) & 255] ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}
